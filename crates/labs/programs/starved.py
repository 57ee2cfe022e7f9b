# Given by the lab: cpu.
import os
os.sched_setaffinity(0,{cpu})
while True: pass
