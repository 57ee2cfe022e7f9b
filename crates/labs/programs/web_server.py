import sys,time
log=open(sys.argv[1]+'/access.log','a')
while True:
    open(sys.argv[1]+'/page','rb').read()
    log.write('GET /page 200\n')
    log.flush()
    time.sleep(0.01)
