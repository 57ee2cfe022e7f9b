{
  description = "Why is my disk slow?";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "iowhy";
          version = (pkgs.lib.importTOML ./Cargo.toml).workspace.package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "--package" "iowhy" ];
          # Those of the workspace need devices and root.
          cargoTestFlags = [ "--package" "iowhy-core" "--lib" ];
          nativeBuildInputs = [
            pkgs.pkg-config
            pkgs.rustPlatform.bindgenHook
            pkgs.python3
            pkgs.installShellFiles
          ];
          buildInputs = [ pkgs.elfutils pkgs.zlib ];
          # BPF programs are compiled without the flags of Nix's wrapper, which are for programs of this machine.
          CLANG = "${pkgs.llvmPackages.clang-unwrapped}/bin/clang";
          hardeningDisable = [ "all" ];
          postInstall = ''
            patchShebangs scripts
            scripts/man $out/bin/iowhy generated
            installManPage generated/man/man*/*
            installShellCompletion generated/completions/iowhy.{bash,fish} --zsh generated/completions/_iowhy
          '';
          meta = {
            homepage = "https://github.com/iowhy/iowhy";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            platforms = systems;
            mainProgram = "iowhy";
          };
        };
      });
    };
}
