import os, sys, time
time.sleep(1)
while True:
    for n in range(40):
        with open(f'{sys.argv[1]}/f{n}', 'rb') as file:
            file.read()
        time.sleep(0.01)
