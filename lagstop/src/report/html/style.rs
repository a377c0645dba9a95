//! How the page looks, in light and in dark.

pub(super) const SHEET: &str = "
:root { color-scheme: light dark; --line: light-dark(#d5d9de, #3a4048); --dim: light-dark(#57606a, #9aa4af);
  --ok: light-dark(#1a7f37, #4ac26b); --info: light-dark(#0b6bcb, #6cb6ff); --warning: light-dark(#9a6700, #e3b341);
  --critical: light-dark(#c62828, #ff7b72); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  background: light-dark(#fff, #14181d); color: light-dark(#1c2126, #e3e7eb); }
h1 { margin-bottom: 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1rem 0 0.2rem; }
.verdict { font-size: 1.2rem; margin-top: 0; }
.bar { display: flex; height: 1.1rem; border-radius: 3px; overflow: hidden; background: var(--line); }
.bar i, .key { background: var(--else); } .bar i { min-width: 1px; border-right: 1px solid light-dark(#fff, #14181d); }
.key { display: inline-block; width: 0.7em; height: 0.7em; margin-right: 0.3em; border-radius: 2px; }
i.running { background: light-dark(#24292f, #d0d7de); } i.behind { background: #dd7c1c; } i.others { background: #f0b070; }
i.itself { background: #3a86d6; } i.quota { background: #c754a0; } i.else { background: #8c8c8c; }
.name { margin-top: 0.7rem; overflow-wrap: anywhere; }
.note, footer { color: var(--dim); }
table { border-collapse: collapse; margin: 0.6rem 0; }
td { padding: 0.15rem 0.8rem 0.15rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
td.value { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; }
figcaption, summary { font-weight: 600; }
figure p { margin: 0; font-size: 0.9rem; }
svg { display: block; width: 100%; height: auto; color: inherit; }
details.finding { border: 1px solid var(--line); border-left: 4px solid var(--line); border-radius: 4px;
  padding: 0.5rem 1rem; margin: 0.8rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.ok { border-left-color: var(--ok) !important; } .ok b { color: var(--ok); }
.info { border-left-color: var(--info) !important; } .info b { color: var(--info); }
.warning { border-left-color: var(--warning) !important; } .warning b { color: var(--warning); }
.critical { border-left-color: var(--critical) !important; } .critical b { color: var(--critical); }
.verdict.warning { color: var(--warning); } .verdict.critical { color: var(--critical); }
pre { background: light-dark(#f3f5f7, #1e242b); padding: 0.5rem; overflow-x: auto; margin: 0.2rem 0 0.6rem; }
@media print { details.finding { break-inside: avoid; } }
";
