import os,sys,time
n=0
while True:
    n+=1
    t=sys.argv[1]+'/doc.new'
    f=open(t,'wb');f.write(os.urandom(20000));f.flush();os.fsync(f.fileno());f.close()
    os.rename(t,sys.argv[1]+'/doc')
    time.sleep(1)
