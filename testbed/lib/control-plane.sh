# Sourced by `cluster`: binaries, the pause image, and the control plane in the machine's own namespaces.

BINARIES="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy"

# The API server needs patches/ (an unpatched one dies of the first custom resource). A folder's file `patched` tells with
# which patches its API server was built.
PATCHES=$(cat "$HERE"/patches/*.patch | sha256sum | cut -d' ' -f1)

is_sound() {  # FOLDER BINARY
  [ "$2" != kube-apiserver ] || [ "$(cat "$1/patched" 2>/dev/null)" = "$PATCHES" ]
}

get_binaries() {  # into $BIN, once per machine: from $PACKED where it has sound ones, else built
  local b missing=()
  [ -z "${KUBE_BIN_DIR:-}" ] || return 0
  mkdir -p "$BIN"
  for b in $BINARIES; do
    if [ -x "$BIN/$b" ] && is_sound "$BIN" "$b"; then continue; fi
    if [ -r "$PACKED/$b.xz" ] && is_sound "$PACKED" "$b"; then unpack "$b"; else missing+=("$b"); fi
  done
  [ ${#missing[@]} = 0 ] || build_binaries "${missing[@]}"
  echo "$PATCHES" >"$BIN/patched"
}

unpack() {
  xz -dc "$PACKED/$1.xz" >"$BIN/$1.part"
  sed -n "s#  $1\$#  $BIN/$1.part#p" "$PACKED/SHA256SUMS" | sha256sum -c --status ||
    die "$PACKED/$1.xz does not match $PACKED/SHA256SUMS"
  chmod 755 "$BIN/$1.part"
  mv "$BIN/$1.part" "$BIN/$1"
}

build_binaries() {
  local log=$DIR/log/build-kubernetes.log
  say "building $* from source, once per machine: 15 minutes or more (log: $log)"
  "$HERE/build-kubernetes" "$BIN.build" "$@" >"$log" 2>&1 </dev/null || die "build-kubernetes failed: $(tail -n 3 "$log")"
  mv "$BIN.build"/* "$BIN/"
  rmdir "$BIN.build"
}

pause_image() {  # an image of one static binary that sleeps and reaps: catatonit -P
  local store=$DIR/buildah c
  [ -s "$DIR/pause.tar" ] && return
  b() { buildah --root "$store" --runroot "$store/run" --storage-driver overlay "$@"; }
  c=$(b from scratch)
  b copy -q "$c" "$(command -v catatonit)" /pause >/dev/null
  b config --entrypoint '["/pause","-P"]' "$c"
  b commit -q "$c" localhost/pause:1 >/dev/null
  b push -q localhost/pause:1 "oci-archive:$DIR/pause.tar.part:localhost/pause:1"
  mv "$DIR/pause.tar.part" "$DIR/pause.tar"
  umount "$store/overlay" 2>/dev/null || true
  rm -rf "$store"
}

start_control_plane() {
  local pki=$DIR/pki
  ip link show $BRIDGE >/dev/null 2>&1 || ip link add $BRIDGE type bridge
  ip addr replace $GATEWAY/24 dev $BRIDGE
  ip link set $BRIDGE up
  start etcd etcd --data-dir "$DIR/etcd" --listen-client-urls $ETCD --advertise-client-urls $ETCD \
    --listen-peer-urls http://127.0.0.1:12380 --auto-compaction-retention=1h
  start apiserver "$BIN/kube-apiserver" --etcd-servers=$ETCD --bind-address=$GATEWAY --secure-port=6443 \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=$SERVICES \
    --authorization-mode=Node,RBAC --allow-privileged=true --enable-aggregator-routing=true \
    --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" \
    --kubelet-preferred-address-types=InternalIP \
    --default-not-ready-toleration-seconds="$EVICT" --default-unreachable-toleration-seconds="$EVICT"
  wait_for 60 "API server" kubectl get --raw /readyz
  # 1.20 leaves stale entries in its taint queue when nodes start; at the default rate of one eviction in 10 s
  # they hold up the eviction from a dead node.
  start kcm "$BIN/kube-controller-manager" --kubeconfig="$DIR/kcm.kubeconfig" --leader-elect=false \
    --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" --use-service-account-credentials=true \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --node-monitor-period=1s --node-monitor-grace-period=8s --node-eviction-rate=10 \
    --bind-address=127.0.0.1 --port=0
  start scheduler "$BIN/kube-scheduler" --kubeconfig="$DIR/scheduler.kubeconfig" --leader-elect=false \
    --bind-address=127.0.0.1 --port=0
  start dns python3 "$HERE/cluster-dns" --listen $GATEWAY --server $API --domain $DOMAIN \
    --ca "$pki/ca.crt" --cert "$pki/dns.crt" --key "$pki/dns.key"
}

shared_volumes() {  # the default storage class: folders of this machine that all nodes see
  local i
  {
    cat <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
YAML
    for ((i = 0; i < PVS; i++)); do
      mkdir -p -m 777 "$DIR/shared/pv-$i"
      cat <<YAML
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: shared-$i}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteMany, ReadWriteOnce, ReadOnlyMany]
  storageClassName: shared
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: $DIR/shared/pv-$i}
YAML
    done
  } >"$DIR/shared.yaml"
  kubectl apply -f "$DIR/shared.yaml" >/dev/null
  reclaim_volumes
}

reclaim_volumes() {  # volumes whose claim was deleted may be claimed again, emptied
  local name
  kubectl get pv -o 'jsonpath={range .items[?(@.status.phase=="Released")]}{.metadata.name}{"\n"}{end}' |
    while read -r name; do
      find "$DIR/shared/pv-${name#shared-}" -mindepth 1 -delete
      kubectl patch pv "$name" --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]' </dev/null >/dev/null
    done
}
