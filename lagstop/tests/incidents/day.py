#!/usr/bin/env python3
"""A made-up day for `lagstop serve --sentinel`: calm, an incident, calm, and so on, with the loads of record.py.

day.py [NAME...]     all incidents that show in files, or those named

For each it prints how long it took until programs were attached, and what share of its time was measured; at the end the same of all, and
how much of the calm time nothing was attached. What is harmful is known from the loads, not from lagstop. SECONDS_ (default 240) is the
length of an incident and of a calm time: longer than the three minutes that a sentinel stays attached. Wants what record.py wants, and a host
that is calm by itself.
"""
import os, subprocess, sys, time, urllib.request
import record

LAGSTOP = os.environ.get("LAGSTOP", "lagstop")
SECONDS = float(os.environ.get("SECONDS_", "240"))
ADDRESS = "127.0.0.1:19385"
INCIDENTS = [record.saturation, record.bully, record.throttled, record.threads, record.outweighed, record.pinned,
             record.light_heavy, record.two]

def is_attached():
    text = urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=10).read().decode()
    for line in text.splitlines():
        if line.startswith("lagstop_sentinel_attached "):
            return float(line.split()[1]) == 1
    raise SystemExit("there is no lagstop_sentinel_attached")

def watch(seconds):
    """Seconds until it was attached first, and how many of them it was."""
    began, last, attached, first = time.monotonic(), time.monotonic(), 0.0, None
    while (now := time.monotonic()) - began < seconds:
        if is_attached():
            attached += now - last
            first = first if first is not None else now - began
        last = now
        time.sleep(0.25)
    return first, attached

def main(names):
    server = subprocess.Popen([LAGSTOP, "serve", "--sentinel", "--listen", ADDRESS], stderr=subprocess.DEVNULL)
    harm = seen = calm = quiet = 0.0
    try:
        time.sleep(12)
        for incident in INCIDENTS:
            if names and incident.__name__ not in names:
                continue
            incident()
            try:
                first, attached = watch(SECONDS)
            finally:
                record.clean()
            said = "never" if first is None else f"after {first:.1f} s"
            print(f"{incident.__name__:<12} attached {said}, {attached / SECONDS:.1%} of its time measured", flush=True)
            harm, seen = harm + SECONDS, seen + attached
            _, attached = watch(SECONDS)
            calm, quiet = calm + SECONDS, quiet + SECONDS - attached
    finally:
        record.clean()
        server.terminate()
        server.wait()
    print(f"{seen / harm:.1%} of the harmful time was measured; nothing was attached in {quiet / calm:.1%} of the calm time")

main(sys.argv[1:])
