#!/bin/busybox sh
# The first process of the guest: mounts what lagstop needs, runs each live test by itself, and says on the second serial
# port how it went. `cargo xtask vmtest` reads it: a line that starts with "@@" is for it, all others are output.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mkdir -p /proc /sys /dev /tmp /run /root /etc
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
chmod 1777 /tmp
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
ifconfig lo 127.0.0.1 up
. /etc/vmtest

# The console tells of the kernel's end; the results go through a port of their own.
stty -F "$PORT" raw -echo
exec >"$PORT" 2>&1 </dev/null
say() { printf '\n@@ %s\n' "$*"; }

end() {
  say "end"
  # Until the last byte is through.
  sleep 1
  poweroff -f
}

die() {
  say "broken $*"
  end
}

for module in $MODULES; do
  insmod "/lib/$module.ko" || die "the module $module cannot be loaded"
done

# Three deep, as a service in a slice in a slice is.
leaf=vmtest.slice/vmtest-live.slice/live.service
cgroups=/sys/fs/cgroup
mkdir -p "$cgroups"

unified() {
  mount -t cgroup2 cgroup2 "$1" || die "cgroup v2 cannot be mounted"
}

# Mounts the v1 controllers given, together, and goes three deep there.
v1() {
  mkdir -p "$cgroups/$1"
  mount -t cgroup -o "$1" cgroup "$cgroups/$1" || die "the v1 controllers $1 cannot be mounted"
  join "$cgroups/$1"
}

join() {
  mkdir -p "$1/$leaf"
  echo $$ >"$1/$leaf/cgroup.procs" || die "$1/$leaf cannot be joined"
}

case $CGROUP in
  v2)
    unified "$cgroups"
    grep -qw cpu "$cgroups/cgroup.controllers" || die "the controller cpu is not in cgroup v2"
    at=$cgroups
    for part in vmtest.slice vmtest-live.slice live.service; do
      echo +cpu >"$at/cgroup.subtree_control" || die "cpu cannot be handed down from $at"
      at=$at/$part
      mkdir "$at"
    done
    join "$cgroups"
    ;;
  v1)
    # Each by itself.
    mount -t tmpfs tmpfs "$cgroups"
    v1 cpu
    v1 cpuacct
    ;;
  hybrid)
    # As systemd mounts them: a v2 hierarchy that has no controllers is beside.
    mount -t tmpfs tmpfs "$cgroups"
    v1 cpu,cpuacct
    mkdir "$cgroups/unified"
    unified "$cgroups/unified"
    join "$cgroups/unified"
    ;;
  *) die "no layout of cgroups is called $CGROUP" ;;
esac

# Nobody else is here.
export LAGSTOP_BIN=/bin/lagstop LAGSTOP_TEST_SLOW=1 LAGSTOP_TEST_DISRUPT=1 RUST_BACKTRACE=0
[ -z "$COUNTED" ] || export LAGSTOP_TEST_COUNTED=1

say "kernel $(uname -r)"
say "check"
timeout -s KILL "$TEST_TIMEOUT" /bin/lagstop check --format json 2>/tmp/said
say "checked $?"
cat /tmp/said

if [ -n "$RUN" ]; then
  say "test command"
  timeout -s KILL "$TEST_TIMEOUT" sh -c "$RUN"
  say "ran $?"
  end
fi

for name in $(/bin/live --list "$FILTER" | sed -n 's/: test$//p'); do
  case " $LEFT_OUT " in *" $name "*) continue ;; esac
  say "test $name"
  timeout -s KILL "$TEST_TIMEOUT" /bin/live --test-threads=1 --color=never --exact "$name"
  code=$?
  # What a test that took too long has started would disturb the next.
  [ "$code" -ne 137 ] || killall -KILL lagstop live
  say "tested $code"
done
end
