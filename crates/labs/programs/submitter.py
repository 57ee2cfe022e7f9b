import ctypes, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
call.restype = ctypes.c_long
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR | os.O_DIRECT)
append = sys.argv[2] == 'append'
size = 64 << 20
block = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(block))
context = ctypes.c_ulong(0)
assert call(206, 64, ctypes.byref(context)) == 0
events = ctypes.create_string_buffer(32 * 64)
at = 0
while True:
    if at >= size:
        at = 0
        if append:
            os.ftruncate(fd, 0)
    blocks = []
    for n in range(8):
        fields = (0, 0, 0, 1, 0, fd, address, 4096, at, 0, 0, 0)
        blocks.append(ctypes.create_string_buffer(struct.pack('<QIIHhIQQqQII', *fields)))
        at += 4096
    pointers = (ctypes.c_void_p * 8)(*[ctypes.addressof(one) for one in blocks])
    done = call(209, context, ctypes.c_long(8), pointers)
    assert done > 0, os.strerror(ctypes.get_errno())
    call(208, context, ctypes.c_long(done), ctypes.c_long(done), events, None)
