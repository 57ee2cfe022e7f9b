import sys,time
f=open(sys.argv[1],'rb')
while True:
    b=f.read(500000)
    if not b: f.seek(0)
    time.sleep(0.1)
