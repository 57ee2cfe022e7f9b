#!/bin/busybox sh
# The first process of a guest: makes it usable, runs /command, hands over what it left, ends.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/disk /tmp /run /var/tmp /out
mount -t tmpfs tmpfs /dev/shm
chmod 1777 /tmp /var/tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+io +memory" >/sys/fs/cgroup/cgroup.subtree_control

# The second serial port; on aarch64 the console is no ttyS.
said=/dev/ttyS1
[ ! -c /dev/ttyAMA0 ] || said=/dev/ttyS0
stty -F $said raw -opost
exec </dev/null >$said 2>&1
echo up
# By this the host sees whether the clock runs at its own pace.
sleep 1
echo ticked
# In this order: older kernels do not know what virtio needs.
modprobe -aq virtio_ring virtio_pci virtio_blk
modprobe -a $(cat /modules)

# Disks answer to the names that they were given.
for disk in /sys/block/vd* /sys/block/nvme*; do
  for serial in $disk/serial $disk/device/serial; do
    [ -e "$serial" ] || continue
    read -r name <"$serial"
    ln -s "/dev/${disk##*/}" "/dev/disk/$name"
  done
done

# A guest with a Debian of its own goes on in there.
[ ! -e /system.sh ] || exec sh /system.sh

bash /command
echo $? >/out/.status
dmesg >/out/.dmesg
tar -C /out -cf - . | dd of=/dev/disk/iowhy-out bs=1M conv=fsync status=none
poweroff -f
