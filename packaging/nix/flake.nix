# For scripts/test-recipes: what /flake.nix takes from nixpkgs, where that cannot be had. Each thing is its own name, and
# a package is what was asked for.
{
  outputs = { self }:
    let
      named = name: { outPath = "/${name}"; };
      pkgs = {
        lib = {
          importTOML = path: builtins.fromTOML (builtins.readFile path);
          licenses = { mit = "MIT"; asl20 = "Apache-2.0"; };
        };
        rustPlatform = {
          buildRustPackage = arguments: arguments;
          bindgenHook = named "bindgenHook";
        };
        llvmPackages.clang-unwrapped = named "clang";
        pkg-config = named "pkg-config";
        python3 = named "python3";
        elfutils = named "elfutils";
        zlib = named "zlib";
      };
    in {
      lib.genAttrs = names: make:
        builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
      legacyPackages = { x86_64-linux = pkgs; aarch64-linux = pkgs; };
    };
}
