# Given by the lab: port.
import urllib.request,time
while True:
    try: urllib.request.urlopen(f'http://127.0.0.1:{port}/popularity/word').read()
    except OSError: time.sleep(0.2)
