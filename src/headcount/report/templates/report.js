// Draws the figures of the page with uPlot. Text comes in through textContent and canvas only, never as HTML.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const page = JSON.parse(document.getElementById("figures").textContent);
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const plots = [];
  const whole = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10000, 100000];
  const short = new Set(["s", "fraction", "°C", "W", "GHz"]);

  const seconds = (v) =>
    Math.abs(v) < 0.00995 && v !== 0 ? (v * 1000).toFixed(1) + " ms" : Math.abs(v) < 0.9995 ? Math.round(v * 1000) + " ms"
    : v.toFixed(Math.abs(v) < 9.995 ? 2 : 1) + " s";
  const clock = (v) => {
    const s = Math.round(v), two = (n) => String(n).padStart(2, "0");
    return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s % 3600 / 60))}:${two(s % 60)}`;
  };
  const figures3 = (v) => v.toLocaleString(root.lang, { maximumSignificantDigits: Math.abs(v) >= 100 ? 4 : 3 });
  const show = (v, unit) =>
    v == null ? "–" : v === 0 && unit !== "time" ? "0" : unit === "s" ? seconds(v) : unit === "fraction" ? +(v * 100).toPrecision(3) + " %" : unit === "time" ? clock(v)
    : figures3(v) + (unit ? " " + unit : "");

  function shade(u, figure) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    figure.spans.forEach((span, i) => {
      const x0 = u.valToPos(span.begin, "x", true), x1 = u.valToPos(span.end, "x", true);
      ctx.fillStyle = colour(figure.x_unit === "time" ? "stripe" : "span");
      if (figure.x_unit !== "time" || i % 2 === 0) ctx.fillRect(x0, bbox.top, x1 - x0, bbox.height);
    });
    ctx.restore();
  }

  function label(u, text, x, y, align, name) {
    const { ctx } = u;
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = align; ctx.textBaseline = "top"; ctx.fillStyle = colour(name);
    ctx.fillText(text, x, y);
  }

  function mark(u, figure) {
    const { ctx, bbox } = u, r = devicePixelRatio;
    ctx.save();
    if (figure.x_unit === "time") for (const span of figure.spans) {
      const x0 = Math.max(u.valToPos(span.begin, "x", true), bbox.left), x1 = Math.min(u.valToPos(span.end, "x", true), bbox.left + bbox.width);
      if (x1 - x0 > 16 * r) label(u, span.label, (x0 + x1) / 2, bbox.top - 15 * r, "center", "soft");
    }
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    ctx.lineWidth = 1.5 * r; ctx.setLineDash([5 * r, 4 * r]);
    for (const rule of figure.rules) {
      const name = rule.across ? "bad" : "limit";
      ctx.strokeStyle = colour(name); ctx.beginPath();
      if (rule.across) {
        const y = u.valToPos(rule.at, rule.right ? "right" : "y", true);
        ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
        const below = y < bbox.top + 16 * r;
        label(u, rule.label, rule.right ? bbox.left + bbox.width - 4 * r : bbox.left + 4 * r, below ? y + 3 * r : y - 15 * r, rule.right ? "right" : "left", name);
      } else {
        const x = u.valToPos(rule.at, "x", true);
        ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
        const left = x > bbox.left + bbox.width * 0.7;
        label(u, rule.label, x + (left ? -5 : 5) * r, bbox.top + 4 * r, left ? "right" : "left", name);
      }
    }
    ctx.setLineDash([]);
    const named = [];
    figure.names.forEach((name, i) => {
      const v = figure.lines.map((line) => line.values[i]).find((one) => one != null);
      if (v == null) return;
      const x = u.valToPos(figure.x[i], "x", true), y = u.valToPos(v, "y", true);
      // A name over another one could not be read; hovering tells it.
      if (named.some(([a, b]) => Math.abs(a - x) < 22 * r && Math.abs(b - y) < 12 * r)) return;
      named.push([x, y]);
      const right = x > bbox.left + bbox.width - 40 * r;
      label(u, name, x + (right ? -7 : 7) * r, y - 13 * r, right ? "right" : "left", "soft");
    });
    ctx.restore();
  }

  function reach(figure, right) {
    return (u, low, high) => {
      for (const rule of figure.rules) if (rule.across && rule.right === right) high = Math.max(high ?? 0, rule.at * 1.08);
      const fraction = figure.lines.some((line) => line.right === right && line.unit === "fraction");
      return fraction && !figure.band.length ? [0, 1.02] : [0, (high ?? 0) > 0 ? high * (figure.names.length ? 1.14 : 1.06) : 1];
    };
  }

  function axis(figure, right) {
    const unit = figure.lines.find((line) => line.right === right)?.unit ?? "";
    return {
      scale: right ? "right" : "y", side: right ? 1 : 3, size: 60, stroke: colour("soft"),
      grid: { show: !right, stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 },
      font: "11px system-ui, sans-serif", values: (u, splits) => splits.map((v) => (v == null ? "" : short.has(unit) ? show(v, unit) : show(v, ""))),
      ...(short.has(unit) || !unit ? {} : { label: unit, labelFont: "11px system-ui, sans-serif", labelSize: 16 }),
    };
  }

  function options(figure, width, log, hidden, legend) {
    const sides = [...new Set(figure.lines.map((line) => line.right))];
    const pad = (u, low, high) => low === high ? [low - 1, high + 1] : figure.x_unit === "time" ? [low, high] : [Math.max(0, low - (high - low) * 0.04), high + (high - low) * 0.04];
    return {
      width, height: Math.max(220, Math.min(320, Math.round(width * 0.55))), padding: [figure.x_unit === "time" ? 20 : 14, sides.includes(true) ? 0 : 14, 0, 0],
      cursor: { sync: figure.x_unit === "time" ? { key: "time" } : undefined, points: { size: 7 } },
      legend: { live: true, mount: (u, el) => legend.replaceChildren(el) },
      scales: { x: { time: false, range: pad }, y: log ? { distr: 3 } : { range: reach(figure, false) }, right: { range: reach(figure, true) } },
      axes: [
        { label: figure.x_label, labelFont: "12px system-ui, sans-serif", labelSize: 18, size: 32, stroke: colour("soft"), font: "11px system-ui, sans-serif",
          grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 },
          incrs: figure.x_unit === "time" ? [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000] : whole,
          values: (u, splits) => splits.map((v) => show(v, figure.x_unit)) },
        ...sides.map((right) => axis(figure, right)),
      ],
      series: [
        { label: figure.x_label, value: (u, v, s, i) => i == null ? "–" : figure.names[i] ?? show(v, figure.x_unit) },
        ...figure.lines.map((line, i) => ({
          label: line.label, scale: line.right ? "right" : "y", stroke: colour(line.colour), width: 2, spanGaps: true, show: !hidden.has(i),
          paths: line.points_only ? () => null : undefined, points: { show: line.points_only || figure.x_unit !== "time", size: line.points_only ? 9 : 6, fill: colour(line.colour) },
          value: (u, v) => show(v, line.unit),
        })),
      ],
      bands: figure.band.length ? [{ series: [figure.band[0] + 1, figure.band[1] + 1], fill: colour("c2band") }] : [],
      hooks: { drawClear: [(u) => shade(u, figure)], draw: [(u) => mark(u, figure)] },
    };
  }

  function draw(plot) {
    plot.u?.destroy();
    const width = Math.max(240, plot.place.clientWidth);
    const data = [plot.figure.x, ...plot.figure.lines.map((line) => line.values)];
    plot.u = new uPlot(options(plot.figure, width, plot.log, plot.hidden, plot.legend), data, plot.place);
    plot.width = width;
    const until = plot.figure.view_until;
    if (until && plot.figure.x.at(-1) > until && plot.figure.x.filter((x) => x <= until).length > 1) plot.u.setScale("x", { min: 0, max: until });
    plot.legend.querySelectorAll(".u-series").forEach((row, i) => {
      if (i === 0) return;
      const name = row.querySelector(".u-label");
      name.tabIndex = 0;
      name.setAttribute("role", "button");
      name.setAttribute("aria-pressed", String(!plot.hidden.has(i - 1)));
      const note = () => {
        const shown = plot.u.series[i].show;
        name.setAttribute("aria-pressed", String(shown));
        if (shown) plot.hidden.delete(i - 1); else plot.hidden.add(i - 1);
      };
      row.addEventListener("click", note);
      name.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        plot.u.setSeries(i, { show: !plot.u.series[i].show });
        note();
      });
    });
  }

  document.querySelectorAll("[data-figure]").forEach((place) => {
    const number = place.dataset.figure, legend = document.querySelector(`[data-legend="${number}"]`);
    const plot = { figure: page[number], place, legend, log: false, hidden: new Set() };
    plots.push(plot);
    draw(plot);
    document.querySelector(`[data-log="${number}"]`)?.addEventListener("click", (event) => {
      plot.log = !plot.log;
      event.currentTarget.setAttribute("aria-pressed", String(plot.log));
      draw(plot);
    });
  });

  const redraw = () => plots.forEach(draw);
  addEventListener("resize", () => plots.forEach((plot) => { if (plot.place.clientWidth !== plot.width) draw(plot); }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  });
})();
