import sys,mmap,time
f=open(sys.argv[1],'rb')
m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)
while True:
    for at in range(0,len(m),65536):
        m[at:at+65536].count(b'a')
        time.sleep(0.003)
