# Given by the lab: held, threads.
import os,sys,time,threading
l=threading.Lock()
fd=os.open(sys.argv[1]+'/snapshot',os.O_CREAT|os.O_WRONLY)
def save():
    os.lseek(fd,0,0)
    for _ in range(8): os.write(fd,b'x'*1048576)
    os.fsync(fd)
def writer():
    while True:
        if held:
            with l: save()
        else:
            with l: pass
            save()
        time.sleep(0.05)
def worker():
    while True:
        with l: pass
        time.sleep(0.01)
threading.Thread(target=writer).start()
for _ in range(threads): threading.Thread(target=worker).start()
