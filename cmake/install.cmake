# What `cmake --install` copies, by component: program (the command and its unit), libraries
# (libraries.cmake), dependencies (other projects' libraries), wheel (its compiled parts). CPack makes
# the .deb of the first two, and the tarball of the first three.
include(GNUInstallDirs)

set_target_properties(lockstep PROPERTIES INSTALL_RPATH $ORIGIN/../lib)
# The old tag holds for the libraries of libraries, too: libudev is one of libhwloc.
target_link_options(lockstep PRIVATE LINKER:--disable-new-dtags)
install(TARGETS lockstep RUNTIME_DEPENDENCY_SET dependencies DESTINATION ${CMAKE_INSTALL_BINDIR}
        COMPONENT program)
# The libraries of other projects, for machines that have none: all but those of glibc and g++.
install(RUNTIME_DEPENDENCY_SET dependencies
        PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|libpthread|librt|ld-linux.*|libgcc_s|libstdc[+][+])[.]so"
        DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dependencies EXCLUDE_FROM_ALL)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES packaging/systemd/lockstep.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES packaging/ansible/add_hosts.yml DESTINATION share/lockstep/ansible COMPONENT program)
install(DIRECTORY packaging/ansible/roles DESTINATION share/lockstep/ansible COMPONENT program)
install(DIRECTORY packaging/prometheus DESTINATION share/lockstep COMPONENT program)

# Python finds torch's libraries beside the package.
set_target_properties(lockstep_python PROPERTIES INSTALL_RPATH $ORIGIN/../torch/lib)
install(TARGETS lockstep DESTINATION lockstep/bin COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS lockstep_python lockstep_report_lines DESTINATION lockstep COMPONENT wheel
        EXCLUDE_FROM_ALL)
install(FILES ${CMAKE_BINARY_DIR}/python/lockstep/_build.py DESTINATION lockstep COMPONENT wheel
        EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "The Lockstep maintainers <maintainers@lockstep.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Communication, training and scheduling of deep-learning runs")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/package)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program libraries)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the packages of the libraries that ours link
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libfabric1, libcurl4")  # loaded when they are needed
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_SOURCE_DIR}/packaging/debian/postinst;${CMAKE_SOURCE_DIR}/packaging/debian/prerm;${CMAKE_SOURCE_DIR}/packaging/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
