import os, sys, time
while True:
    for n in range(40):
        os.utime(f'{sys.argv[1]}/f{n}')
        time.sleep(0.05)
