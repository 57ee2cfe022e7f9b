import os, random, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
while True:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(fd, 4096, random.randrange(16000) * 4096)
    os.stat(sys.argv[1])
    time.sleep(0.002)
