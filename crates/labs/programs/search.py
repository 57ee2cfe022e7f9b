import sys
while True: open(sys.argv[1],'rb').read().count(b'needle')
