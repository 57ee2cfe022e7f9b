import os,sys,time
while True:
    for i in range(6000):
        open(f'{sys.argv[1]}/f{i}').read()
        time.sleep(0.0005)
