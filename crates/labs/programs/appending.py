# Given by the lab: one, threads.
import mmap,os,sys,threading
def run(n):
    flags=os.O_CREAT|os.O_WRONLY|os.O_APPEND|os.O_DIRECT
    fd=os.open(sys.argv[1]+'/out'+('' if one else str(n)),flags)
    b=mmap.mmap(-1,4096)
    while True: os.write(fd,b)
for n in range(threads): threading.Thread(target=run,args=(n,)).start()
