# Looks at every file of a tree whose names and inodes are not cached.
# Given before: directories, files, threads, think_us, name.
import os, sys, threading, time

top = os.path.join(sys.argv[1], name)


def layout():
    for d in range(directories):
        folder = os.path.join(top, 'd%d' % d)
        os.makedirs(folder)
        for f in range(files):
            os.close(os.open(os.path.join(folder, 'f%d' % f), os.O_CREAT | os.O_WRONLY))


def scan(thread):
    debt = 0.0
    while True:
        for d in range(thread, directories, threads):
            with os.scandir(os.path.join(top, 'd%d' % d)) as entries:
                for entry in entries:
                    os.lstat(entry.path)
                    debt += think_us / 1e6
                    if debt >= 0.001:
                        time.sleep(debt)
                        debt = 0.0
        time.sleep(0.01)


if sys.argv[2] == 'layout':
    layout()
else:
    running = [threading.Thread(target=scan, args=(t,)) for t in range(threads)]
    for thread in running:
        thread.start()
