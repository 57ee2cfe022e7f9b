# A plugin for sos (https://github.com/sosreport/sos): why storage is slow, while the report is
# taken, and what the flight recorder kept. Copy it to sos/report/plugins of the host's sos.
#
# SPDX-License-Identifier: MIT OR Apache-2.0

import json
import re
import shlex

from sos.report.plugins import Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin

try:
    from sos.report.plugins import PluginOpt
except ImportError:
    # sos before 4.3 takes tuples.
    PluginOpt = None

CONFIG = "/etc/iowhy/iowhy.toml"


def option(name, default, text):
    """An option of the plugin, in the form of this version of sos."""
    if PluginOpt is None:
        return (name, text, "fast", default)
    return PluginOpt(name, default=default, desc=text)


class Iowhy(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin):
    """iowhy names why a disk is slow. It only reads, and its watch costs about 1 % of a CPU."""

    short_desc = "iowhy: why storage is slow"
    plugin_name = "iowhy"
    profiles = ("storage", "performance")
    packages = ("iowhy",)
    commands = ("iowhy",)
    option_list = [
        option("watch", 10, "seconds to watch the machine; 0 for no watch"),
        option("incidents", 3, "incidents of the recorder to add, newest first"),
        option("redact", False, "replace names of files, processes and hosts"),
    ]

    def setup(self):
        redact = " --redact" if self.get_option("redact") else ""
        seconds = int(self.get_option("watch"))
        self.add_cmd_output("iowhy check --json", suggest_filename="check.json", stderr=False)
        if seconds > 0:
            self.add_cmd_output(
                f"iowhy -t {seconds} --no-keep --json{redact}",
                suggest_filename="watch.json",
                timeout=seconds + 60,
                stderr=False,
            )
        # Sentences of a listed incident have names in them; its recording can be read without.
        if redact:
            for number in self.newest():
                self.run(f"iowhy report {self.folder(number)} --json{redact}", number)
        else:
            self.add_cmd_output(
                "iowhy incidents --json", suggest_filename="incidents.json", stderr=False
            )
            for number in self.newest():
                self.run(f"iowhy incidents show {number} --json", number)
            self.add_copy_spec(CONFIG)

    def run(self, command, number):
        """Adds what `command` says of an incident; its notes are no JSON."""
        filename = f"incident-{number}.json"
        self.add_cmd_output(command, suggest_filename=filename, stderr=False)

    def folder(self, number):
        """The folder of an incident, below the configured state directory."""
        try:
            with open(CONFIG, encoding="utf-8") as config:
                found = re.search(r"^\s*state\s*=\s*[\"']([^\"'\n]+)[\"']", config.read(), re.MULTILINE)
        except OSError:
            found = None
        state = found.group(1) if found else "/var/lib/iowhy"
        return shlex.quote(f"{state}/incidents/{number:06}")

    def newest(self):
        """The numbers of the newest incidents; none without a recorder."""
        most = int(self.get_option("incidents"))
        listed = self.exec_cmd("iowhy incidents --json", stderr=False)
        try:
            known = json.loads(listed["output"])
        except (ValueError, KeyError, TypeError):
            return []
        rows = known.get("incidents", []) if isinstance(known, dict) else known
        numbers = [row["number"] for row in rows if isinstance(row, dict) and "number" in row]
        return sorted(numbers, reverse=True)[:most]

# vim: set et ts=4 sw=4 :
