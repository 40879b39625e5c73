//! Programs outside of the repository use the library in three ways: from an installed tree by CMake, by pkg-config, and from the build
//! tree. The installed tree is moved before it is used.

use crate::common::{Compiler, fortran, root, scratch, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs with `make`, then moves everything to another place.
fn install(name: &str, libdir: &str) -> PathBuf {
    let folder = scratch(name);
    let (first, moved) = (folder.join("first"), folder.join("moved"));
    for old in [&first, &moved] {
        let _ = fs::remove_dir_all(old);
    }
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("the test is in deps");
    let mut make = Command::new("make");
    make.arg("install-files").current_dir(root()).env_remove("MAKEFLAGS").env_remove("DESTDIR");
    make.env("CARGO_TARGET_DIR", profile.parent().expect("the profile is in the target folder"));
    make.arg(format!("PROFILE={}", profile.file_name().expect("a profile has a name").to_string_lossy()));
    make.arg(format!("PREFIX={}", first.display())).arg(format!("LIBDIR={libdir}"));
    succeed(make);
    fs::rename(first, &moved).expect("the installed tree can be moved");
    moved
}

fn assert_solves(program: &Path) {
    let mut command = Command::new(program);
    command.arg("8").env_remove("LD_LIBRARY_PATH");
    let output = succeed(command);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("right-hand side 0: ") && text.contains(", converged"), "{}: {text}", program.display());
}

#[test]
fn an_installed_tree_is_found_by_cmake() {
    let prefix = install("consumer-cmake", "lib");
    let build = prefix.with_file_name("build");
    let _ = fs::remove_dir_all(&build);

    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("cmake/consumer")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    configure.arg(format!("-DEXAMPLES={}", root().display()));
    configure.arg(format!("-DCMAKE_Fortran_COMPILER={}", fortran::compiler()));
    succeed(configure);
    let mut compile = Command::new("cmake");
    compile.arg("--build").arg(&build).env_remove("MAKEFLAGS");
    succeed(compile);

    for program in ["c_shared", "c_static", "cpp_shared", "fortran_shared", "fortran_source"] {
        assert_solves(&build.join(program));
    }
}

#[test]
fn an_installed_tree_is_found_by_pkg_config() {
    let libdir = "lib/x86_64-linux-gnu";
    let prefix = install("consumer-pkg-config", libdir);
    let libraries = prefix.join(libdir);
    let flags = |package: &str| -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs", package]).env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
        let output = succeed(command);
        String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect()
    };
    let programs = [
        (std::env::var("CC").unwrap_or_else(|_| "cc".to_string()), "c_examples/poisson.c", "terrace"),
        (std::env::var("CXX").unwrap_or_else(|_| "c++".to_string()), "c_examples/poisson.cpp", "terrace"),
        (fortran::compiler(), "fortran/poisson.f90", "terrace_fortran"),
    ];
    for (compiler, source, package) in programs {
        let program = prefix.with_file_name(source.replace(['/', '.'], "_"));
        let mut command = Command::new(compiler);
        command.arg(root().join(source)).arg("-o").arg(&program).args(flags(package));
        command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        succeed(command);
        assert_solves(&program);
    }
}

#[test]
fn the_build_tree_is_enough() {
    let sources = root().join("c_examples");
    assert_solves(&Compiler::c().build(&[sources.join("poisson.c")]));
    assert_solves(&Compiler::cpp().build(&[sources.join("poisson.cpp")]));
    assert_solves(&fortran::build(&root().join("fortran/poisson.f90")));
}

#[test]
fn an_installed_tree_has_the_files_that_packagers_expect() {
    let prefix = install("consumer-files", "lib");
    let link = |name: &str| fs::read_link(prefix.join("lib").join(name)).expect("a link");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(link("libterrace.so"), Path::new("libterrace.so.0"));
    assert_eq!(link("libterrace.so.0"), Path::new(&format!("libterrace.so.{version}")));
    for file in [
        "bin/terrace",
        "include/terrace.h",
        "include/terrace.hpp",
        "include/terrace_client.hpp",
        "include/terrace_mfem.hpp",
        "include/terrace_dealii.hpp",
        "lib/libterrace.a",
        "share/terrace/terrace.f90",
        "share/doc/terrace/docs/options.md",
        "share/doc/terrace/c_examples/poisson.cpp",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    for file in ["lib/pkgconfig/terrace.pc", "lib/cmake/terrace/terraceConfig.cmake"] {
        let text = fs::read_to_string(prefix.join(file)).expect(file);
        assert!(!text.contains('@') && !text.contains("consumer-files"), "{file} has a place that is fixed: {text}");
    }
    let info = succeed({
        let mut command = Command::new(prefix.join("bin/terrace"));
        command.arg("--version");
        command
    });
    assert!(String::from_utf8_lossy(&info.stdout).contains(version));
}

/// Installed pages link to nothing that only the repository has.
#[test]
fn links_of_installed_pages_lead_somewhere() {
    let pages = install("consumer-docs", "lib").join("share/doc/terrace/docs");
    let mut links = 0;
    for page in fs::read_dir(&pages).expect("the pages are installed") {
        let page = page.expect("a page").path();
        let text = fs::read_to_string(&page).expect("a page is text");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            links += 1;
            let is_there = link.is_empty() || link.starts_with("http") || pages.join(link).exists();
            assert!(is_there, "{} links to {link}", page.display());
        }
    }
    assert!(links > 10, "{links} links");
}
