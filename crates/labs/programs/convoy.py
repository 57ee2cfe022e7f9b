# Given by the lab: file, bytes, threads.
import os,sys,threading,time
lock=threading.Lock()
n=0
def save():
    while True:
        with lock:
            f=os.open(sys.argv[1]+f'/{file}.state',os.O_CREAT|os.O_WRONLY|os.O_TRUNC)
            os.write(f,b'x'*bytes)
            os.fsync(f)
            os.close(f)
        time.sleep(0.03)
def count():
    global n
    while True:
        with lock: n+=1
        time.sleep(0.005)
for _ in range(threads): threading.Thread(target=count).start()
save()
