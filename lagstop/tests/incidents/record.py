#!/usr/bin/env python3
"""Makes the loads of the incidents with stress-ng in cgroups of version 1, and records each of them, or diagnoses them live.

record.py DIRECTORY [NAME...]   records into the directory
record.py live [NAME...]        prints what `lagstop diagnose` says of each while it goes on
record.py wait NAME             keeps it going for SECONDS_, to look at it

Wants root, stress-ng, taskset and a host with two CPUs that has nothing else to do. The incident `steal` is `healthy` with
`steal_ns` set to 60 % of each interval: no hypervisor steals on demand.
"""
import os, subprocess, sys, time, signal, socket
HIER = [h for h in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpuset") if os.path.isdir(h)]
LAGSTOP = os.environ.get("LAGSTOP", "lagstop")
made, procs = [], []

def cgroup(path, **files):
    parts = path.strip("/").split("/")
    for h in HIER:
        for n in range(1, len(parts) + 1):
            d = os.path.join(h, *parts[:n])
            if not os.path.isdir(d):
                os.mkdir(d); made.append(d)
                if h.endswith("cpuset"):
                    for f in ("cpuset.cpus", "cpuset.mems"):
                        up = open(os.path.join(os.path.dirname(d), f)).read()
                        open(os.path.join(d, f), "w").write(up)
    for name, value in files.items():
        h = HIER[2] if name.startswith("cpuset") else HIER[0]
        open(os.path.join(h, path.strip("/"), name.replace("__", ".")), "w").write(str(value))
    return path

def run(path, *command, **kw):
    def enter():
        os.setsid()
        for h in HIER:
            open(os.path.join(h, path.strip("/"), "cgroup.procs"), "w").write("0")
    p = subprocess.Popen(command, preexec_fn=enter, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
    procs.append(p); return p

def cpu(path, n, load=100, *more):
    extra = ["--cpu-load", str(load), "--cpu-load-slice", "5"] if load < 100 else []
    return run(path, "stress-ng", "--cpu", str(n), "--cpu-method", "int64", *extra, *more)

def saturation():
    for n in range(26): cpu(cgroup(f"shop/app-{n:02}"), 1)
def bully():
    cpu(cgroup("shop/checkout"), 2, 60); cpu(cgroup("shop/search"), 1, 30)
    cpu(cgroup("etl/batch"), 6)
def throttled():
    cpu(cgroup("media/thumbnailer", cpu__cfs_quota_us=40000), 2)
    cpu(cgroup("shop/search"), 1, 20)
def threads():
    cpu(cgroup("ml/scorer"), 24)
    cpu(cgroup("shop/search"), 1, 5)
def outweighed():
    cgroup("kubepods", cpu__shares=65536)
    for n in range(6): cpu(cgroup(f"kubepods/pod-{n}"), 1)
    cgroup("system.slice")
    cpu(cgroup("system.slice/sshd.service"), 1)
def backlog():
    server = '''
import socket,time
s=socket.socket(); s.setsockopt(1,2,1); s.bind(("127.0.0.1",8087)); s.listen(16)
while True:
    c,_=s.accept()
    t=time.process_time()
    while time.process_time()-t<0.008: pass
    c.close()
'''
    client = '''
import socket,time,threading
def go():
    while True:
        try:
            s=socket.create_connection(("127.0.0.1",8087),timeout=5); s.recv(1); s.close()
        except OSError: time.sleep(0.05)
for _ in range(12): threading.Thread(target=go,daemon=True).start()
time.sleep(999)
'''
    run(cgroup("shop/api"), "/usr/bin/env", "python3", "-c", server)
    run(cgroup("shop/clients"), "/usr/bin/env", "python3", "-c", client)
    cgroup("etl", cpu__shares=16384)
    cpu(cgroup("etl/batch"), 4)
def pinned():
    run(cgroup("ingest/parser"), "taskset", "-c", "0", "stress-ng", "--cpu", "2", "--cpu-method", "int64")
    run(cgroup("ingest/writer"), "taskset", "-c", "0", "stress-ng", "--cpu", "1", "--cpu-method", "int64")
    cpu(cgroup("shop/search"), 1, 10)
def dense():
    for n in range(150):
        run(cgroup(f"lambda/fn-{n:03}"), "stress-ng", "--pipe", "1", "--pipe-data-size", "64")
def light_heavy():
    for n in range(20): cpu(cgroup(f"fn/light-{n:02}"), 1, 4)
    for n in range(2): cpu(cgroup(f"fn/heavy-{n}"), 5)
def two():
    throttled()
    run(cgroup("ingest/parser"), "taskset", "-c", "0", "stress-ng", "--cpu", "3", "--cpu-method", "int64")
def healthy():
    cpu(cgroup("shop/search"), 1, 15); cpu(cgroup("shop/checkout"), 1, 10)
ALL = [saturation, bully, throttled, threads, outweighed, backlog, pinned, dense, light_heavy, two, healthy]

def clean():
    for p in procs:
        try: os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError: pass
        p.wait()
    procs.clear(); time.sleep(0.3)
    for d in sorted(made, key=len, reverse=True):
        for _ in range(20):
            try: os.rmdir(d); break
            except OSError: time.sleep(0.1)
    made.clear()

if __name__ == "__main__":
    out, names = sys.argv[1], sys.argv[2:]
    for f in ALL:
        if names and f.__name__ not in names: continue
        try:
            f(); time.sleep(3)
            if out == "live":
                r = subprocess.run([LAGSTOP, "diagnose", "--duration", os.environ.get("SECONDS_", "15s")] + os.environ.get("ARGS", "").split(), capture_output=True, text=True)
                print(f"=== {f.__name__}\n{r.stdout}{r.stderr}", flush=True)
            elif out == "wait":
                time.sleep(float(os.environ.get("SECONDS_", "30")))
            else:
                subprocess.run([LAGSTOP, "record", "--duration", "20s", "-o", f"{out}/{f.__name__}.jsonl.zst", "--force"], check=True)
                print(f.__name__, os.path.getsize(f"{out}/{f.__name__}.jsonl.zst"), flush=True)
        finally: clean()
