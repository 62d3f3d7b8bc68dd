/**
 * Sample data for trying the service without a model: the named colours of CSS. The vector of a colour holds its CIELAB
 * coordinates. Distances in CIELAB approximate perceived differences, so similarity can be checked by eye.
 */

export interface SamplePoint {
  readonly vector: readonly number[]
  readonly content: string
  readonly attributes: {
    readonly hex: string
    readonly family: string
    readonly lightness: number
    readonly dark: boolean
  }
}

export const sampleName = 'colours'
export const sampleDimension = 3

const names =
  'aliceblue f0f8ff,antiquewhite faebd7,aqua 00ffff,aquamarine 7fffd4,azure f0ffff,beige f5f5dc,bisque ffe4c4,black 000000,blanchedalmond ffebcd,blue 0000ff,blueviolet 8a2be2,brown a52a2a,burlywood deb887,cadetblue 5f9ea0,chartreuse 7fff00,chocolate d2691e,coral ff7f50,cornflowerblue 6495ed,cornsilk fff8dc,crimson dc143c,darkblue 00008b,darkcyan 008b8b,darkgoldenrod b8860b,darkgray a9a9a9,darkgreen 006400,darkkhaki bdb76b,darkmagenta 8b008b,darkolivegreen 556b2f,darkorange ff8c00,darkorchid 9932cc,darkred 8b0000,darksalmon e9967a,darkseagreen 8fbc8f,darkslateblue 483d8b,darkslategray 2f4f4f,darkturquoise 00ced1,darkviolet 9400d3,deeppink ff1493,deepskyblue 00bfff,dimgray 696969,dodgerblue 1e90ff,firebrick b22222,floralwhite fffaf0,forestgreen 228b22,fuchsia ff00ff,gainsboro dcdcdc,ghostwhite f8f8ff,gold ffd700,goldenrod daa520,gray 808080,green 008000,greenyellow adff2f,honeydew f0fff0,hotpink ff69b4,indianred cd5c5c,indigo 4b0082,ivory fffff0,khaki f0e68c,lavender e6e6fa,lavenderblush fff0f5,lawngreen 7cfc00,lemonchiffon fffacd,lightblue add8e6,lightcoral f08080,lightcyan e0ffff,lightgoldenrodyellow fafad2,lightgray d3d3d3,lightgreen 90ee90,lightpink ffb6c1,lightsalmon ffa07a,lightseagreen 20b2aa,lightskyblue 87cefa,lightslategray 778899,lightsteelblue b0c4de,lightyellow ffffe0,lime 00ff00,limegreen 32cd32,linen faf0e6,maroon 800000,mediumaquamarine 66cdaa,mediumblue 0000cd,mediumorchid ba55d3,mediumpurple 9370db,mediumseagreen 3cb371,mediumslateblue 7b68ee,mediumspringgreen 00fa9a,mediumturquoise 48d1cc,mediumvioletred c71585,midnightblue 191970,mintcream f5fffa,mistyrose ffe4e1,moccasin ffe4b5,navajowhite ffdead,navy 000080,oldlace fdf5e6,olive 808000,olivedrab 6b8e23,orange ffa500,orangered ff4500,orchid da70d6,palegoldenrod eee8aa,palegreen 98fb98,paleturquoise afeeee,palevioletred db7093,papayawhip ffefd5,peachpuff ffdab9,peru cd853f,pink ffc0cb,plum dda0dd,powderblue b0e0e6,purple 800080,rebeccapurple 663399,red ff0000,rosybrown bc8f8f,royalblue 4169e1,saddlebrown 8b4513,salmon fa8072,sandybrown f4a460,seagreen 2e8b57,seashell fff5ee,sienna a0522d,silver c0c0c0,skyblue 87ceeb,slateblue 6a5acd,slategray 708090,snow fffafa,springgreen 00ff7f,steelblue 4682b4,tan d2b48c,teal 008080,thistle d8bfd8,tomato ff6347,turquoise 40e0d0,violet ee82ee,wheat f5deb3,white ffffff,whitesmoke f5f5f5,yellow ffff00,yellowgreen 9acd32'

export function samplePoints(): readonly SamplePoint[] {
  return names.split(',').map((entry) => {
    const [name, hex] = entry.split(' ')
    const lab = labOf(hex!)
    const lightness = Math.round(lab[0])
    return {
      vector: lab.map((value) => Number(value.toFixed(3))),
      content: name!,
      attributes: { hex: `#${hex}`, family: familyOf(lab), lightness, dark: lightness < 50 },
    }
  })
}

type Lab = readonly [number, number, number]

/** Converts sRGB to CIELAB through CIE XYZ under D65, by the formulas of CIE 15. */
function labOf(hex: string): Lab {
  const [r, g, b] = [0, 2, 4].map((start) => linear(Number.parseInt(hex.slice(start, start + 2), 16) / 255))
  const x = curve((0.4124564 * r! + 0.3575761 * g! + 0.1804375 * b!) / 0.95047)
  const y = curve(0.2126729 * r! + 0.7151522 * g! + 0.072175 * b!)
  const z = curve((0.0193339 * r! + 0.119192 * g! + 0.9503041 * b!) / 1.08883)
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)]
}

function linear(value: number): number {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
}

function curve(value: number): number {
  return value > 216 / 24389 ? Math.cbrt(value) : (24389 / 27 / 116) * value + 16 / 116
}

const families = ['red', 'orange', 'yellow', 'green', 'cyan', 'blue', 'purple', 'pink'] as const
/** The CIELAB hue where each family begins, in degrees. */
const familyStarts = [20, 48, 80, 112, 165, 230, 300, 330] as const

function familyOf([, a, b]: Lab): string {
  if (Math.hypot(a, b) < 8) return 'grey'
  const hue = (Math.atan2(b, a) * 180) / Math.PI + (b < 0 ? 360 : 0)
  const index = familyStarts.findLastIndex((start) => hue >= start)
  return families.at(index) ?? 'pink'
}
