import os, sys
block = b'x' * 65536
while True:
    for number in range(4):
        path = f'{sys.argv[1]}/log.{number}'
        if os.path.exists(path):
            os.unlink(path)
        fd = os.open(path, os.O_CREAT | os.O_WRONLY)
        try:
            for _ in range(80):
                os.write(fd, block)
        except OSError:
            pass
        os.close(fd)
