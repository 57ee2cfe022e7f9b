# Given by the lab: files, bytes.
import random,sys,time
while True:
    with open(f'{sys.argv[1]}/{random.randrange(files)}','ab') as f: f.write(b's'*bytes)
    time.sleep(0.01)
