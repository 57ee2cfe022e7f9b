import os, sys
kept = os.open(sys.argv[1], os.O_RDONLY)
size, at = os.lseek(kept, 0, os.SEEK_END), 0
while True:
    part = os.open(sys.argv[1], os.O_RDONLY)
    os.lseek(part, at, 0)
    for _ in range(256):
        os.read(part, 4096)
    os.close(part)
    at = (at + (1 << 20)) % size
