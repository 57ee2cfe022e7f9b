package main
import ("os"; "runtime"; "sync"; "syscall"; "time")
func main() {
	var lock sync.Mutex
	cond := sync.NewCond(&lock)
	for i := 0; i < 30; i++ {
		go func() { runtime.LockOSThread(); lock.Lock(); for { cond.Wait() } }()
		go func() {
			runtime.LockOSThread()
			for { t := syscall.Timespec{Nsec: 50000000}; syscall.Nanosleep(&t, nil) }
		}()
	}
	file, err := os.Create(os.Args[1])
	if err != nil { panic(err) }
	for {
		file.WriteString("a line of a log\n")
		cond.Broadcast()
		time.Sleep(100 * time.Millisecond)
	}
}
