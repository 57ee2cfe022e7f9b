for my $i (1 .. $ARGV[1]) {
    my $file = "$ARGV[0]/known-$i";
    open(my $out, ">", $file) or die $!;
    syswrite($out, "x" x 4096);
    close $out;
    open(my $in, "<", $file) or die $!;
    sysread($in, my $data, 512) for 1 .. $ARGV[2];
    close $in;
    my @about = stat $file;
    unlink $file;
}
