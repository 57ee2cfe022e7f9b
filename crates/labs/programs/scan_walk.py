# Given by the lab: reads.
import os,sys
for d,_,fs in os.walk(sys.argv[1]):
    for f in fs:
        p=os.path.join(d,f)
        if reads: open(p,'rb').read()
        else: os.lstat(p)
