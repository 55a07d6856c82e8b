package io.streamjob.files;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system without checksum files, and without a `chmod` process for each file and directory.
 *
 * <p>A job's file sinks write through it: some 24 processes a batch less.
 */
public class OutputFileSystem extends RawLocalFileSystem {
  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
    add(permissions, permission.getUserAction(), "OWNER");
    add(permissions, permission.getGroupAction(), "GROUP");
    add(permissions, permission.getOtherAction(), "OTHERS");
    Files.setPosixFilePermissions(pathToFile(path).toPath(), permissions);
  }

  private static void add(Set<PosixFilePermission> permissions, FsAction action, String who) {
    for (FsAction each : new FsAction[] {FsAction.READ, FsAction.WRITE, FsAction.EXECUTE}) {
      if (action.implies(each)) {
        permissions.add(PosixFilePermission.valueOf(who + "_" + each));
      }
    }
  }
}
