// Goroutines that wait for one that writes. usage: chains FILE SECONDS
package main

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const workers = 5

func main() {
	file, err := syscall.Open(os.Args[1], syscall.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		panic(err)
	}
	seconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	// A mapping is aligned as a direct write needs it.
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	page[0] = 1 // A page that nobody wrote to is the zero page, which is nobody's.
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var lock sync.Mutex
	var all sync.WaitGroup
	for index := 0; index <= workers; index++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				lock.Lock()
				if index == 0 {
					if _, err := syscall.Pwrite(file, page, 0); err != nil {
						panic(err)
					}
				}
				lock.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		}()
	}
	all.Wait()
}
