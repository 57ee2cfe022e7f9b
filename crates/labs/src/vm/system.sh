#!/bin/busybox sh
# A guest with a Debian on the disk "system" goes on in there: its systemd is the first process from now on. One
# service, which is not on the disk, runs /command and ends the guest. Files below /guest are then in /run/guest.
sleep 5
echo steady
root=/system-root
mkdir $root
mount -t ext4 /dev/disk/system $root || exit 1
mount -t tmpfs -o mode=755,size=20% tmpfs $root/run
mkdir -p $root/run/guest $root/run/systemd/system/multi-user.target.wants
cp /command $root/run/guest/
[ ! -d /guest ] || cp -r /guest/. $root/run/guest/
cat >$root/run/guest/run <<'RUN'
exec </dev/null >/dev/ttyS1 2>&1
export HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /run/out
ln -sfn /run/out /out
bash /run/guest/command
echo $? >/out/.status
dmesg >/out/.dmesg
tar -C /out -cf - . | dd of=/dev/disk/iowhy-out bs=1M conv=fsync status=none
systemctl poweroff --force --force
RUN
cat >$root/run/systemd/system/guest.service <<'UNIT'
[Unit]
Description=What this guest is for
[Service]
ExecStart=/bin/bash /run/guest/run
OOMScoreAdjust=-900
UNIT
ln -s ../guest.service $root/run/systemd/system/multi-user.target.wants/
# A terminal would wait for a device that nobody announces: there is no udev.
ln -s /dev/null $root/run/systemd/system/serial-getty@ttyS0.service
exec </dev/null >/dev/console 2>&1
for folder in proc sys dev; do
  mount --move /$folder $root/$folder
done
exec busybox switch_root $root /sbin/init
