// Writes blocks of a device directly, in a goroutine, by a function that calls itself. Its part in C makes it
// a program with .eh_frame, which has nothing of the functions in Go. usage: unwound FILE SECONDS
package main

/*
static int sectors(void) { return 8; }
*/
import "C"

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

//go:noinline
func writeAtDepth(depth int, file int, page []byte) int {
	if depth > 0 {
		return writeAtDepth(depth-1, file, page) + 1
	}
	done, err := syscall.Pwrite(file, page, 0)
	if err != nil {
		panic(err)
	}
	return done
}

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
	page, err := syscall.Mmap(-1, 0, 512*int(C.sectors()), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	page[0] = 1 // A page that nobody wrote to is the zero page, which is nobody's.
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	done := make(chan bool)
	go func() {
		for time.Now().Before(end) {
			writeAtDepth(8, file, page)
		}
		done <- true
	}()
	<-done
}
