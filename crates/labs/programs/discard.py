import os,sys,time
for n in range(0,17960,40):
    for i in range(n+1,n+40,2): os.unlink(f'{sys.argv[1]}/t{i}')
    fd=os.open(sys.argv[1],os.O_RDONLY);os.fsync(fd);os.close(fd)
    time.sleep(0.02)
time.sleep(60)
