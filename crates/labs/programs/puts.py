import sys, json, base64, threading, http.client, os, random
port, threads, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
counts = [0] * threads
def client(number):
    to = http.client.HTTPConnection('127.0.0.1', port)
    value = base64.b64encode(os.urandom(256)).decode()
    while True:
        key = base64.b64encode(b'key%d' % random.randrange(10000)).decode()
        to.request('POST', '/v3/kv/put', json.dumps({'key': key, 'value': value}))
        to.getresponse().read()
        counts[number] += 1
for number in range(threads):
    threading.Thread(target=client, args=(number,), daemon=True).start()
import time
at = os.open(file, os.O_CREAT | os.O_WRONLY)
while True:
    os.pwrite(at, b'%20d' % sum(counts), 0)
    time.sleep(0.05)
