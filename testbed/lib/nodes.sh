# Sourced by `cluster`: nodes. Each has its own network, mount, pid, ipc and uts namespaces, and a cgroup.

# Host paths that every node sees as its own (bind mounts in the node's mount namespace).
PRIVATE="/var/lib/kubelet /var/lib/cni /var/lib/containerd /var/log/pods /var/log/containers"

node_ip() { echo 10.89.0.$((10 + $1)); }
node_dir() { echo "$DIR/nodes/$1"; }
node_init() { local p; p=$(pid_of "node-$1") && pgrep -P "$p"; }  # pid 1 of the node
nodes() { [ -d "$DIR/nodes" ] && ls "$DIR/nodes" | sort -n || true; }
want_node() { [[ ${1:-} =~ ^[0-9]+$ ]] && [ -d "$(node_dir "$1")" ] || die "no such node: '${1:-}'"; }
node_ready() { [ "$(kubectl get node "node-$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }

write_node_files() {
  local i=$1 dir f; dir=$(node_dir "$i")
  mkdir -p "$dir"/{log,cni}
  certificate "node-$i" "/O=system:nodes/CN=system:node:node-$i" "IP:$(node_ip "$i"),DNS:node-$i"
  kubeconfig "node-$i"
  echo "nameserver $GATEWAY" >"$dir/resolv.conf"
  for f in containerd.toml kubelet.yaml cni.conflist; do
    sed "s#@I@#$i#g; s#@DIR@#$DIR#g; s#@NODE_DIR@#$dir#g; s#@GATEWAY@#$GATEWAY#g; s#@DOMAIN@#$DOMAIN#g" \
      "$HERE/node/$f" >"$dir/$f"
  done
  mv "$dir/cni.conflist" "$dir/cni/10-bridge.conflist"
}

make_cgroups() {
  local c up=/sys/fs/cgroup f
  if [ -f $up/cgroup.controllers ]; then  # cgroup v2
    for f in $(cat $up/cgroup.controllers); do echo "+$f" >$up/cgroup.subtree_control || true; done 2>/dev/null
    mkdir -p "$up/tb-node-$1"
  else
    for c in $(find $up -mindepth 1 -maxdepth 1 -type d); do mkdir -p "$c/tb-node-$1"; done
  fi
}

remove_cgroups() {
  local d
  for d in /sys/fs/cgroup/tb-node-"$1" /sys/fs/cgroup/*/tb-node-"$1"; do
    [ ! -d "$d" ] || find "$d" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
}

in_net() { local i=$1; shift; nsenter --net="/run/netns/tb-node-$i" "$@"; }  # unlike `ip netns exec`, keeps /sys

make_network() {
  local i=$1 ns=tb-node-$1
  ip netns add "$ns"
  ip link add "tb-v$i" type veth peer name eth0 netns "$ns"
  ip link set "tb-v$i" master $BRIDGE up
  ip -n "$ns" link set lo up
  ip -n "$ns" addr add "$(node_ip "$i")/24" dev eth0
  ip -n "$ns" link set eth0 up
  ip -n "$ns" route add $SERVICES dev eth0       # for the node's own look-ups, before kube-proxy's DNAT
  ip -n "$ns" route add unreachable default      # nothing of the cluster leaves this machine
  in_net "$i" sysctl -qw net.ipv4.ip_forward=1
  if [ -s "$(node_dir "$i")/shape" ]; then apply_shape "$i" $(cat "$(node_dir "$i")/shape"); fi
}

remove_network() {
  ip link del "tb-v$1" 2>/dev/null || true
  ip netns del "tb-node-$1" 2>/dev/null || true
}

routes() {  # pod subnets by node; services by way of the first live node
  local i j first=
  for i in $(nodes); do
    ip route replace "10.244.$i.0/24" via "$(node_ip "$i")" dev $BRIDGE
    [ -e "/run/netns/tb-node-$i" ] || continue
    for j in $(nodes); do
      [ "$i" = "$j" ] || ip -n "tb-node-$i" route replace "10.244.$j.0/24" via "$(node_ip "$j")"
    done
    [ -n "$first" ] || first=$i
  done
  [ -z "$first" ] || ip route replace $SERVICES via "$(node_ip "$first")" dev $BRIDGE
}

start_node() {
  local i=$1
  pid_of "node-$i" >/dev/null && return 0
  remove_network "$i"
  remove_cgroups "$i"
  mkdir -p $PRIVATE
  write_node_files "$i"
  make_cgroups "$i"
  make_network "$i"
  start "node-$i" nsenter --net="/run/netns/tb-node-$i" \
    unshare --mount --propagation private --uts --ipc --pid --fork --kill-child --mount-proc \
    catatonit -- "$HERE/node/main" "$i" "$(node_dir "$i")" "$DIR" "$BIN" "$(node_ip "$i")"
}

kill_node() {
  local init
  if init=$(node_init "$1"); then kill -KILL "$init" 2>/dev/null || true; fi  # the pid namespace dies with it
  stop "node-$1" KILL
  remove_network "$1"
  remove_cgroups "$1"
}

import_image() {  # I ARCHIVE-OR-LAYOUT
  local ctr=(ctr -a "$(node_dir "$1")/containerd.sock" -n k8s.io) has
  if [ -d "$2" ]; then
    has=$("${ctr[@]}" content ls -q | sed 's#^sha256:#blobs/sha256/#')
    (cd "$2" && find oci-layout index.json blobs -type f) | grep -vxF "$has" |
      tar -C "$2" -cf - --files-from - | "${ctr[@]}" images import -
  else
    "${ctr[@]}" images import "$2"
  fi
  # what a name pointed to before lives on under its digest: let it go
  "${ctr[@]}" images ls | awk '
    $1 ~ /^sha256:/ {old[$1] = $3; next} {named[$3] = 1}
    END {for (name in old) if (!(old[name] in named)) print name}' | xargs -r "${ctr[@]}" images rm
}

# ---- network shaping: both ways, kept over kill-node and start-node

apply_shape() {  # I RATE [DELAY]
  local i=$1 rate=$2 delay=${3:-} tc tbf dev
  tbf="tbf rate $rate burst 128kb latency 100ms"
  for tc in "tc -n tb-node-$i qdisc" "tc qdisc"; do  # from the node, and to it
    dev=eth0; [ "$tc" = "tc qdisc" ] && dev=tb-v$i
    $tc del dev $dev root 2>/dev/null || true
    if [ -z "$delay" ]; then
      $tc add dev $dev root $tbf
    else
      $tc add dev $dev root handle 1: netem delay "$delay" limit 20000 2>/dev/null ||
        { unshape "$i"; die "this kernel has no netem: only a RATE can be given (limit lifted)"; }
      $tc add dev $dev parent 1: handle 2: $tbf
    fi
  done
}

unshape() {
  rm -f "$(node_dir "$1")/shape"
  tc -n "tb-node-$1" qdisc del dev eth0 root 2>/dev/null || true
  tc qdisc del dev "tb-v$1" root 2>/dev/null || true
}
