my $number = `uname -m` =~ /^x86_64/ ? 321 : 280;
my $attributes = pack("L", 0);
my $descriptor = syscall($number, 32, $attributes, length $attributes);
die "bpf(BPF_ENABLE_STATS): $!\n" if $descriptor < 0;
$| = 1;
print "ready\n";
<STDIN>;
