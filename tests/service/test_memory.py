"""What threads leave behind is given back."""

import subprocess
import sys

# Threads that hold large buffers side by side and drop them, as a service's do; prints what the process keeps, in MiB.
KEEPS = """
import sys, threading
import psutil
if sys.argv[1] == "bounded":
    from gateway.service.memory import return_memory
    assert return_memory()
def use():
    for size in (60_000, 300_000, 20_000_000, 300_000, 60_000) * 3:
        held = [bytes(size) for _ in range(max(1, 8_000_000 // size))]
        small.append(bytearray(200))
        del held
small = []
for _ in range(4):
    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(psutil.Process().memory_info().rss >> 20)
"""


def kept(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", KEEPS, how], capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout)


def test_a_process_keeps_little_of_what_its_threads_once_needed() -> None:
    bounded = kept("bounded")
    assert bounded < 100
    assert bounded < kept("as it comes")
