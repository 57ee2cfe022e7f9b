# Makes files, reads them back and removes them.
# Given before: files, bytes, reads, synced, threads, think_us, name.
import os, sys, threading, time

top = os.path.join(sys.argv[1], name)
data = b'x' * bytes


def write(path):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(fd, data)
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
        paths = [os.path.join(folder, '%d.txt' % f) for f in range(files)]
        for path in paths:
            write(path)
            time.sleep(think_us / 1e6)
        for path in paths:
            for _ in range(reads):
                read(path)
        for path in paths:
            os.unlink(path)
        os.rmdir(folder)
        number += 1


if sys.argv[2] == 'layout':
    os.mkdir(top)
else:
    for t in range(threads):
        threading.Thread(target=rounds, args=(t,)).start()
