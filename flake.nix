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
          cargoTestFlags = [ "--package" "iowhy-model" "--package" "iowhy-analysis" "--package" "iowhy-diagnosis" "--lib" ];
          nativeBuildInputs = [ pkgs.pkg-config pkgs.rustPlatform.bindgenHook pkgs.python3 ];
          buildInputs = [ pkgs.elfutils pkgs.zlib ];
          # BPF programs are compiled without the flags of Nix's wrapper, which are for programs of this machine.
          CLANG = "${pkgs.llvmPackages.clang-unwrapped}/bin/clang";
          hardeningDisable = [ "all" ];
          # What other packages install, where Nix has it: manual pages, completions, the book, the service.
          postInstall = ''
            patchShebangs scripts
            scripts/packages --tree tree $out/bin/iowhy
            mv tree/usr/share/zsh/{vendor-completions,site-functions}
            cp -r tree/usr/share $out/
            install -Dm644 tree/etc/iowhy/iowhy.toml -t $out/share/doc/iowhy
            install -Dm644 tree/usr/lib/systemd/system/iowhy.service -t $out/lib/systemd/system
            sed -i "s,/usr/bin/,$out/bin/," $out/lib/systemd/system/iowhy.service
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
