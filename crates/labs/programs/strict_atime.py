import os,sys
while True:
    for d,_,names in os.walk(sys.argv[1]):
        for name in names:
            try: open(os.path.join(d,name)).read()
            except OSError: pass
