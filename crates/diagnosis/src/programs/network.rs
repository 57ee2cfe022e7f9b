//! Names, addresses, logins and calls: the services of a network.
//!
//! What does not belong here: mail (see [`super::mail`]), web servers and file servers (see
//! [`super::services`]).

use super::FileRole::{Data, Log, WriteAheadLog};
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "dnsmasq": ["dnsmasq"];
        Sync: "dnsmasq: it answers nobody while it syncs its lease file: put that on a faster disk \
            or a tmpfs (dhcp-leasefile; a tmpfs is empty after each reboot, and leases are then \
            given to others), give longer leases, or serve DHCP and DNS by two processes",
    },
    program! {
        "ISC DHCP": ["dhcpd"],
        paths: [WriteAheadLog "/dhcpd.leases"];
        Sync: "ISC dhcpd: it syncs its lease file before each answer: let answers share a sync \
            (delayed-ack, if it is 0, with max-ack-delay), give longer leases, put the file on a \
            low-latency device",
    },
    program! {
        "BIND": ["named", "isc-net-*", "isc-loop-*"],
        own: [WriteAheadLog "*.jnl"];
        Sync: "BIND: each dynamic update is synced to the journal of its zone: send several \
            changes in one update message, and put the zones on a low-latency device",
    },
    program! {
        "SSSD": ["sssd", "sssd_be", "sssd_nss", "sssd_pam"],
        paths: [Data "/lib/sss/db/"];
        Sync: "SSSD: its cache is written at each login: put /var/lib/sss/db on a tmpfs: after a \
            reboot, logins without network fail until the cache is filled again, and what \
            sss_override has set is lost",
    },
    program! {
        "PowerDNS": ["pdns_server"],
        own: [Data "*.sqlite3", Data "/data.mdb"];
        Sync: "PowerDNS: each change of a zone is a transaction of its backend: send several in \
            one update or API request; SQLite: gsqlite3-pragma-journal-mode=WAL",
    },
    program! {
        "Kerberos KDC": ["krb5kdc", "kadmind"],
        paths: [Data "/krb5kdc/principal"];
        Sync: "Kerberos: the KDC writes and syncs the principal at each login with \
            preauthentication: disable_last_success = true and disable_lockout = true in its \
            [dbmodules] leave that out (guessed passwords then lock nobody out), or put the \
            database on a low-latency device",
    },
    program! {
        "389 Directory Server": ["ns-slapd"],
        own: [WriteAheadLog "/db/log.0", Data "*.db"];
        Sync: "389 Directory Server: put nsslapd-db-logdirectory on a low-latency device; change \
            several entries at once (ldif2db for many); logins write, too, where the account \
            policy keeps the time of the last one",
        Reads: "389 Directory Server: raise nsslapd-cachememsize and nsslapd-dbcachesize; index \
            what is searched (notes=A or notes=U in its access log)",
    },
    program! {
        "FreeRADIUS": ["freeradius", "radiusd"];
        Sync: "FreeRADIUS: write accounting to detail files and load them by the virtual server \
            buffered-sql, so that no answer waits for the database",
        Logging: "FreeRADIUS: write one detail file for all clients, and log rejected logins alone \
            (auth_badpass, auth_goodpass)",
    },
    program! {
        "Pi-hole": ["pihole-FTL"],
        paths: [Data "*pihole-FTL.db"];
        Sync: "Pi-hole: write its queries less often (database.DBinterval, in version 5 \
            DBINTERVAL: a crash then loses those of that time), and keep fewer days \
            (database.maxDBdays)",
        Reads: "Pi-hole: keep fewer days of queries (database.maxDBdays, in version 5 MAXDBDAYS)",
    },
    program! {
        "AdGuard Home": ["AdGuardHome"],
        own: [Log "/querylog.json", Data "*stats.db", Data "*sessions.db"];
        Logging: "AdGuard Home: write its query log less often (querylog.size_memory: a crash \
            loses as many queries), keep it shorter (querylog.interval), or in memory alone \
            (file_enabled: false)",
        Sync: "AdGuard Home: keep statistics and query log for a shorter time \
            (statistics.interval, querylog.interval)",
    },
    program! {
        "fail2ban": ["fail2ban-server"],
        paths: [Data "*fail2ban.sqlite3"];
        Sync: "fail2ban: each ban is a transaction in its SQLite database: forget old ones sooner \
            (dbpurgeage), or keep it in memory (dbfile = :memory: in fail2ban.local: a restart \
            then forgets all bans)",
    },
    program! {
        "Asterisk": ["asterisk"],
        paths: [Data "*astdb.sqlite3"],
        own: [Data "/cdr-csv/", Log "/log/asterisk/"];
        Sync: "Asterisk: write call records in batches (batch=yes in cdr.conf: a crash loses those \
            of the batch), and keep values that change all the time out of AstDB (global \
            variables, func_odbc with a database of its own)",
        Logging: "Asterisk: log fewer levels to files (logger.conf), and no `verbose` or `debug`",
    },
    program! {
        "FreeSWITCH": ["freeswitch"],
        paths: [Data "/freeswitch/db/"];
        Sync: "FreeSWITCH: keep its SQLite databases of calls and registrations (core.db, \
            sofia_reg_*.db) on a tmpfs: after a restart phones register anew; voicemail_default.db \
            is not made anew, and stays where it is",
    },
];
