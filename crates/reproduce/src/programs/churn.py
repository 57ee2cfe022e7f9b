# Makes files, reads them back and removes them.
# Given before: files, bytes, reads, synced, threads, think_us, name.
import os, sys, threading, time

top = os.path.join(sys.argv[1], name)
# Larger files take several writes: the kernel, too, takes no more than 2 GiB at once.
data = b'x' * min(bytes, 16 << 20)


def write(path):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    left = bytes
    while left > 0:
        left -= os.write(fd, data[:left])
    if synced:
        os.fsync(fd)
    os.close(fd)


def read(path):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, 1 << 17):
        pass
    os.close(fd)


def rounds(thread):
    number = 0
    while True:
        folder = os.path.join(top, 't%d-%d' % (thread, number))
        os.mkdir(folder)
        path = lambda f: os.path.join(folder, '%d.txt' % f)
        for f in range(files):
            write(path(f))
            time.sleep(think_us / 1e6)
        for f in range(files):
            for _ in range(reads):
                read(path(f))
        for f in range(files):
            os.unlink(path(f))
        os.rmdir(folder)
        number += 1


if sys.argv[2] == 'layout':
    os.mkdir(top)
else:
    for t in range(threads):
        threading.Thread(target=rounds, args=(t,)).start()
