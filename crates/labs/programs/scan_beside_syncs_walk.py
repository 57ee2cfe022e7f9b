import os,sys
for d,_,fs in os.walk(sys.argv[1]):
    for f in fs: os.lstat(os.path.join(d,f))
