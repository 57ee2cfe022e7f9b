import glob,sys
for f in glob.glob(sys.argv[1]+'/f*'): open(f).read()
