# Threads wait for a lock whose holder writes.
# Given before: waiters, bytes, block, synced, think_us, name.
import os, sys, threading, time

path = os.path.join(sys.argv[1], name)
lock = threading.Lock()


def write(fd):
    os.lseek(fd, 0, os.SEEK_SET)
    left = bytes
    while left > 0:
        left -= os.write(fd, b'x' * min(block, left))
    if synced:
        os.fsync(fd)


def holder():
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    while True:
        with lock:
            write(fd)
        time.sleep(max(think_us / 1e6, 0.001))


def waiter():
    while True:
        with lock:
            pass
        time.sleep(0.01)


if sys.argv[2] == 'layout':
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    write(fd)
    os.close(fd)
else:
    threading.Thread(target=holder).start()
    for _ in range(waiters):
        threading.Thread(target=waiter).start()
