import sys,time
f=open(sys.argv[1]+'/app.log','a')
while True:
    f.write('INFO all is well\n');f.flush()
    time.sleep(0.1)
