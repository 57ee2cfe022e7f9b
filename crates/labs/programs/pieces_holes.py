import os,sys,glob
for i,p in enumerate(sorted(glob.glob(sys.argv[1]+'/s*'),key=lambda p:int(p.rsplit('s',1)[1]))):
    if i%2: os.unlink(p)
