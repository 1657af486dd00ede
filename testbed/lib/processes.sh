# Sourced by `cluster`: the processes it owns. $DIR/run/NAME.pid holds "pid start-time", so that a reused pid is never
# mistaken for one of ours.

say() { echo "[$(date +%T)] $*" >&2; }
die() { echo "cluster: $*" >&2; exit 1; }

start_time() { awk '$3 != "Z" {print $22}' "/proc/$1/stat" 2>/dev/null || true; }

pid_of() {
  local pid began
  read -r pid began 2>/dev/null <"$DIR/run/$1.pid" || return 1
  [ "$(start_time "$pid")" = "$began" ] && echo "$pid"
}

start() {  # NAME COMMAND...; nothing of the caller's environment reaches it
  local name=$1; shift
  pid_of "$name" >/dev/null && return 0
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin PODS="$PODS" PRIVATE="$PRIVATE" \
    setsid "$@" </dev/null >>"$DIR/log/$name.log" 2>&1 &
  echo "$! $(start_time $!)" >"$DIR/run/$name.pid"
}

stop() {  # NAME [SIGNAL]; waits until it is gone, then insists
  local pid i
  pid=$(pid_of "$1") || { rm -f "$DIR/run/$1.pid"; return 0; }
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do
    pid_of "$1" >/dev/null || break
    [ $i = 50 ] && kill -KILL "$pid" 2>/dev/null
    sleep 0.1
  done
  rm -f "$DIR/run/$1.pid"
}

wait_for() {  # SECONDS DESCRIPTION COMMAND...
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "timed out: $what (logs: $DIR/log, $DIR/nodes/*/log)"
    sleep 0.3
  done
}
